rule headline:
    input:
        lambda wildcards: GRAPH.inputs("headline", wildcards),
    output:
        f"{RECORDS}/headline.{{case}}.json",
    log:
        "logs/headline/{workload}/{run}/{case}.log",
    priority: GRAPH.count_later
    threads: CORES
    resources:
        turn=1,
        gpu=GPU_EACH,
    shell:
        "python -m phasewise headline {wildcards.workload} {wildcards.run} {wildcards.case} 2>&1 | tee {log}"
