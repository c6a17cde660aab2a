rule measure:
    input:
        unpack(GRAPH.measure_inputs),
    output:
        f"{RECORDS}/{{variant}}/measure.json",
    log:
        "logs/measure/{workload}/{run}/{variant}.log",
    priority: GRAPH.count_waiting
    threads: lambda wildcards: CORES * count_gpus(wildcards)
    resources:
        gpu=count_gpus,
    shell:
        "python -m phasewise measure {wildcards.workload} {wildcards.run} {wildcards.variant} 2>&1 | tee {log}"
