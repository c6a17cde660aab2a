rule report:
    input:
        GRAPH.report_inputs,
    output:
        page=report(
            "reports/{workload}/{run}/index.html",
            caption="../report/run.rst",
            category="{workload}",
            labels={"run": "{run}"},
        ),
        text="reports/{workload}/{run}/index.md",
        summary="reports/{workload}/{run}/summary.json",
    log:
        "logs/report/{workload}/{run}.log",
    shell:
        "python -m phasewise report {wildcards.workload} {wildcards.run} > {log} 2>&1"


rule index:
    input:
        GRAPH.index_inputs(),
    output:
        "reports/index.html",
        "reports/index.md",
        "reports/metrics.json",
        "reports/phases.json",
    log:
        "logs/report/index.log",
    shell:
        "python -m phasewise report > {log} 2>&1"
