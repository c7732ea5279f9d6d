/** One alert, of which the rules of Prometheus and the runbook are made. */
export interface Alert {
  /** Without the prefix `Nodewall`. */
  readonly name: string;
  /** `critical`: somebody gets up; `warning`: in working hours. */
  readonly severity: 'critical' | 'warning';
  /** PromQL. Every controller has every node, so it takes the maximum over them. */
  readonly expr: string;
  /** How long it must hold: `5m`. */
  readonly for: string;
  /** One sentence; may name labels, as `{{ $labels.node }}`. */
  readonly summary: string;
  /** The runbook: Markdown without headings. */
  readonly means: string;
  /** The commands to run first, each with its meaning. */
  readonly look: readonly (readonly [command: string, shows: string])[];
  readonly act: string;
}
