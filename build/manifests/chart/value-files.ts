import { stringify } from 'yaml';
import type { ChartValue } from './chart-values.ts';
import type { HelmSchema } from './helm-schema.ts';

type Values = Readonly<Record<string, ChartValue>>;

/** values.yaml. */
export function valuesText(values: Values): string {
  return Object.entries(values)
    .map(([name, value]) => {
      if (value.kind === 'group') return `${name}:\n${indented(valuesText(value.values))}`;
      return `# ${value.description}\n${stringify({ [name]: value.initial }, { lineWidth: 0 })}`;
    })
    .join('');
}

/** values.schema.json: a key that is no value of the chart is refused. */
export function valuesSchema(values: Values): HelmSchema {
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    ...groupSchema({
      ...values,
      // Helm itself passes it to charts within charts.
      global: { kind: 'value', description: 'Of Helm; not used.', initial: {}, schema: { type: 'object' } },
    }),
  };
}

function groupSchema(values: Values): HelmSchema {
  return {
    type: 'object',
    additionalProperties: false,
    properties: Object.fromEntries(
      Object.entries(values).map(([name, value]) => [
        name,
        value.kind === 'group'
          ? groupSchema(value.values)
          : { ...value.schema, description: value.description },
      ]),
    ),
  };
}

/** Rows of a Markdown table. */
export function valuesTable(values: Values): string {
  const rows = rowsOf(values, '').map((cells) => `| ${cells.join(' | ')} |\n`);
  return `| value | default | meaning |\n| --- | --- | --- |\n${rows.join('')}`;
}

function rowsOf(values: Values, before: string): string[][] {
  return Object.entries(values).flatMap(([name, value]) => {
    const path = `${before}${name}`;
    if (value.kind === 'group') return rowsOf(value.values, `${path}.`);
    return [[`\`${path}\``, `\`${JSON.stringify(value.initial)}\``, value.description]];
  });
}

function indented(text: string): string {
  return text.replace(/^(?=.)/gm, '  ');
}
