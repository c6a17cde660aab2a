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
        gpu=1,
    shell:
        "python -m phasewise headline {wildcards.workload} {wildcards.run} {wildcards.case} 2>&1 | tee {log}"
