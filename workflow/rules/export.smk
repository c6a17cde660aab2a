rule export:
    input:
        lambda wildcards: GRAPH.inputs("export", wildcards),
    output:
        f"{RECORDS}/{{variant}}/export.json",
    log:
        "logs/export/{workload}/{run}/{variant}.log",
    priority: GRAPH.count_later
    threads: CORES
    resources:
        turn=1,
        gpu=GPU_EACH,
    shell:
        "python -m phasewise export {wildcards.workload} {wildcards.run} {wildcards.variant} 2>&1 | tee {log}"
