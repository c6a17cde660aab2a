rule machine:
    input:
        "profiles/machines/{device}.identity.json",
    output:
        "profiles/machines/{device}.json",
    log:
        "logs/machine/{device}.log",
    wildcard_constraints:
        device="[a-z0-9]+",
    threads: CORES
    resources:
        turn=1,
        gpu=GPU_EACH,
    shell:
        "python -m phasewise prepare --machine {wildcards.device} > {log} 2>&1"


rule prepare:
    input:
        lambda wildcards: GRAPH.inputs("prepare", wildcards),
    output:
        f"{RECORDS}/prepare.json",
    log:
        "logs/prepare/{workload}/{run}.log",
    threads: CORES
    resources:
        turn=1,
        gpu=GPU_EACH,
    shell:
        "python -m phasewise prepare {wildcards.workload} {wildcards.run} > {log} 2>&1"
