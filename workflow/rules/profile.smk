rule profile:
    input:
        unpack(GRAPH.profile_inputs),
    output:
        f"{RECORDS}/{{variant}}/profile.json",
    log:
        "logs/profile/{workload}/{run}/{variant}.log",
    priority: GRAPH.count_waiting
    threads: CORES
    resources:
        gpu=1,
    shell:
        "python -m phasewise profile {wildcards.workload} {wildcards.run} {wildcards.variant} 2>&1 | tee {log}"
