rule analyse_variant:
    input:
        unpack(GRAPH.analyse_variant_inputs),
    output:
        f"{RECORDS}/{{variant}}/analyse.json",
    # no GPU and a second of one core, and the next of the chain waits for it
    priority: 2 * GATES_FIRST
    log:
        "logs/analyse/{workload}/{run}/{variant}.log",
    shell:
        "python -m phasewise analyse {wildcards.workload} {wildcards.run} {wildcards.variant} > {log} 2>&1"


rule analyse:
    input:
        unpack(GRAPH.analyse_inputs),
    output:
        f"{RECORDS}/analyse.json",
        f"{RECORDS}/ledger.json",
        f"{RECORDS}/summary.json",
    # no GPU and a second of one core, and the next of the chain waits for it
    priority: 2 * GATES_FIRST
    log:
        "logs/analyse/{workload}/{run}.log",
    shell:
        "python -m phasewise analyse {wildcards.workload} {wildcards.run} > {log} 2>&1"
