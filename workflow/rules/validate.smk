rule validate:
    input:
        lambda wildcards: GRAPH.inputs("validate", wildcards),
    output:
        f"{RECORDS}/{{variant}}/validate.json",
    log:
        "logs/validate/{workload}/{run}/{variant}.log",
    # what is timed waits for those that are under way
    priority: lambda wildcards: GATES_FIRST + GRAPH.count_waiting(wildcards)
    threads: GATE_CORES
    resources:
        gate=1,
        gpu=GPU_EACH,
    shell:
        "python -m phasewise validate {wildcards.workload} {wildcards.run} {wildcards.variant} 2>&1 | tee {log}"
