rule profile:
    input:
        unpack(GRAPH.profile_inputs),
    output:
        f"{RECORDS}/{{variant}}/profile.json",
    threads: workflow.cores
    resources:
        gpu=1,
    log:
        "logs/profile/{workload}/{run}/{variant}.log",
    shell:
        "python -m phasewise profile {wildcards.workload} {wildcards.run} {wildcards.variant} 2>&1 | tee {log}"
