rule measure:
    input:
        unpack(GRAPH.measure_inputs),
    output:
        f"{RECORDS}/{{variant}}/measure.json",
    threads: workflow.cores
    resources:
        gpu=1,
    log:
        "logs/measure/{workload}/{run}/{variant}.log",
    shell:
        "python -m phasewise measure {wildcards.workload} {wildcards.run} {wildcards.variant} 2>&1 | tee {log}"
