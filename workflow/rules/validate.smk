rule validate:
    input:
        unpack(GRAPH.validate_inputs),
    output:
        f"{RECORDS}/{{variant}}/validate.json",
    threads: workflow.cores
    resources:
        gpu=1,
    log:
        "logs/validate/{workload}/{run}/{variant}.log",
    shell:
        "python -m phasewise validate {wildcards.workload} {wildcards.run} {wildcards.variant} 2>&1 | tee {log}"
