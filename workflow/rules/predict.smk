rule predict:
    input:
        lambda wildcards: GRAPH.inputs("predict", wildcards),
    output:
        f"{RECORDS}/{{variant}}/predict.json",
    log:
        "logs/predict/{workload}/{run}/{variant}.log",
    priority: ANALYSES_FIRST
    shell:
        "python -m phasewise predict {wildcards.workload} {wildcards.run} {wildcards.variant} > {log} 2>&1"
