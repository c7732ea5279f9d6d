/** One metric in Prometheus' text format (version 0.0.4). */
export interface MetricFamily {
  /** A counter's ends in `_total`. */
  readonly name: string;
  /** One sentence. */
  readonly help: string;
  readonly type: 'gauge' | 'counter';
  readonly labelNames: readonly string[];
}

type Labels = Readonly<Record<string, string>>;

/** The lines that come before a family's samples. */
export function heading({ name, help, type }: Omit<MetricFamily, 'labelNames'>): string {
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;
}

/** Labels as they follow a name: `{a="b"}`; '' for none. */
export function writtenLabels(labels: Labels): string {
  const written = Object.entries(labels).map(([name, value]) => `${name}="${escaped(value)}"`);
  return written.length === 0 ? '' : `{${written.join(',')}}`;
}

/** @param labels as of `writtenLabels` */
export function sample({ name }: Pick<MetricFamily, 'name'>, labels: string, value: number): string {
  return `${name}${labels} ${value}\n`;
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('\n', '\\n').replaceAll('"', '\\"');
}
