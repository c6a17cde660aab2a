rule analyse_variant:
    input:
        lambda wildcards: GRAPH.inputs("analyse", wildcards),
    output:
        f"{RECORDS}/{{variant}}/analyse.json",
    log:
        "logs/analyse/{workload}/{run}/{variant}.log",
    priority: ANALYSES_FIRST
    shell:
        "python -m phasewise analyse {wildcards.workload} {wildcards.run} {wildcards.variant} > {log} 2>&1"


rule analyse:
    input:
        GRAPH.analyse_inputs,
    output:
        f"{RECORDS}/analyse.json",
        f"{RECORDS}/ledger.json",
        f"{RECORDS}/summary.json",
    log:
        "logs/analyse/{workload}/{run}.log",
    priority: ANALYSES_FIRST
    shell:
        "python -m phasewise analyse {wildcards.workload} {wildcards.run} > {log} 2>&1"
