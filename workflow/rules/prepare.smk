rule machine:
    input:
        "profiles/machines/{device}.identity.json",
    output:
        "profiles/machines/{device}.json",
    wildcard_constraints:
        device="[a-z0-9]+",
    threads: workflow.cores
    resources:
        gpu=1,
    log:
        "logs/machine/{device}.log",
    shell:
        "python -m phasewise prepare --machine {wildcards.device} > {log} 2>&1"


rule prepare:
    input:
        f"{RECORDS}/prepare.plan.json",
    output:
        f"{RECORDS}/prepare.json",
    threads: workflow.cores
    resources:
        gpu=1,
    log:
        "logs/prepare/{workload}/{run}.log",
    shell:
        "python -m phasewise prepare {wildcards.workload} {wildcards.run} > {log} 2>&1"
