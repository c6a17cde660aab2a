rule measure:
    input:
        lambda wildcards: GRAPH.inputs("measure", wildcards),
    output:
        f"{RECORDS}/{{variant}}/measure.json",
    log:
        "logs/measure/{workload}/{run}/{variant}.log",
    priority: GRAPH.count_waiting
    # of several ranks, too: such a job waits for its GPUs itself, or it would never see so many of them free at once
    threads: CORES
    resources:
        turn=1,
        gpu=GPU_EACH,
    shell:
        "python -m phasewise measure {wildcards.workload} {wildcards.run} {wildcards.variant} 2>&1 | tee {log}"
