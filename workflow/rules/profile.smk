rule profile:
    input:
        lambda wildcards: GRAPH.inputs("profile", wildcards),
    output:
        f"{RECORDS}/{{variant}}/profile.json",
    log:
        "logs/profile/{workload}/{run}/{variant}.log",
    priority: GRAPH.count_waiting
    # what is timed takes all cores of a GPU, and so never runs beside a profile
    threads: max(1, CORES // PROFILES)
    resources:
        turn=0 if HAS_GPU else 1,
        gpu=GPU_EACH,
        profile=1,
    shell:
        "python -m phasewise profile {wildcards.workload} {wildcards.run} {wildcards.variant} 2>&1 | tee {log}"
