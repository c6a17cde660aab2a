rule validate:
    input:
        unpack(GRAPH.validate_inputs),
    output:
        f"{RECORDS}/{{variant}}/validate.json",
    log:
        "logs/validate/{workload}/{run}/{variant}.log",
    threads: CORES
    resources:
        gpu=1,
    shell:
        "python -m phasewise validate {wildcards.workload} {wildcards.run} {wildcards.variant} 2>&1 | tee {log}"
