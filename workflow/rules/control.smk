rule control:
    input:
        lambda wildcards: GRAPH.inputs("control", wildcards),
    output:
        f"{RECORDS}/control.{{case}}.json",
    log:
        "logs/control/{workload}/{run}/{case}.log",
    priority: GRAPH.count_later
    threads: CORES
    resources:
        turn=1,
        gpu=GPU_EACH,
    shell:
        "python -m phasewise control {wildcards.workload} {wildcards.run} {wildcards.case} 2>&1 | tee {log}"
