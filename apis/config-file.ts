import { type Config, DEFAULT_CONFIG, type Exemption } from './config.ts';
import type { Problem } from './objects.ts';
import { CONFIG_SCHEMA } from './schema/config.ts';
import { asFields, asList, type FieldMap, type FieldPath } from './schema/jsonschema.ts';
import { checkFailsafe, type RawFailsafe, toFailsafe } from './validate/failsafe.ts';
import { suggestion } from './validate/nearest.ts';
import { type Findings, findings, formatPath, hasError, show } from './validate/problem.ts';
import { reportSchema } from './validate/schemaproblem.ts';
import { parseYaml } from './validate/yamldocument.ts';

export interface ParsedConfig {
  /** Defaults filled in; null where there is an error. */
  readonly config: Config | null;
  readonly problems: readonly Problem[];
}

/** The shape that CONFIG_SCHEMA and the checks below leave. */
interface RawConfig {
  readonly exemptions?: Partial<Record<Exemption, boolean>>;
  readonly interfaceGroups?: Readonly<Record<string, number | { readonly group: number }>>;
  readonly failsafe?: { readonly ingress?: readonly RawFailsafe[]; readonly egress?: readonly RawFailsafe[] };
  readonly featureGates?: Config['featureGates'];
  readonly dataplane?: 'nftables';
  readonly dispatch?: Config['dispatch'];
}

/** Reads the agent's configuration (YAML or JSON); `file` is for the messages. An empty file is the defaults. */
export function parseConfig(text: string, file: string): ParsedConfig {
  const problem = (severity: Problem['severity'], line: number, path: string, message: string): Problem => {
    return { severity, file, line, kind: '', name: '', path, message };
  };
  const parsed = parseYaml(text.replace(/^\ufeff/, ''));
  if ('reason' in parsed)
    return { config: null, problems: [problem('error', parsed.line, '', parsed.reason)] };
  const raw = parsed.value ?? {};
  const found = findings();
  reportSchema(CONFIG_SCHEMA, raw, found);
  checkConfig(asFields(raw) ?? {}, found);
  const problems = found.problems
    .map(({ severity, path, message }) => problem(severity, parsed.lineOf(path), formatPath(path), message))
    .sort((a, b) => a.line - b.line);
  return { config: hasError(problems) ? null : toConfig(raw as RawConfig), problems };
}

function checkConfig(raw: FieldMap, found: Findings): void {
  if (raw.dataplane === 'iptables' || raw.dataplane === 'auto') {
    found.error(['dataplane'], `${raw.dataplane} is not supported yet; use nftables or leave it out`);
  }
  for (const [name, value] of Object.entries(asFields(raw.interfaceGroups) ?? {})) {
    checkInterfaceGroup(name, value, found);
  }
  for (const direction of ['ingress', 'egress']) {
    for (const [index, entry] of asList(asFields(raw.failsafe)?.[direction]).entries()) {
      checkFailsafe(entry, ['failsafe', direction, index], found);
    }
  }
}

function checkInterfaceGroup(name: string, value: unknown, found: Findings): void {
  const path = ['interfaceGroups', name];
  if (!/^[A-Za-z][\w.-]{0,62}$/.test(name)) {
    found.error(
      path,
      `${show(name)} is no name: a letter, then letters, digits, "-", "_" and ".", at most 63`,
    );
  }
  const fields = asFields(value);
  if (fields === null) {
    checkGroupNumber(value, path, found);
    return;
  }
  if (!('group' in fields))
    found.error([...path, 'group'], 'is missing; it must be the number of the link group');
  else checkGroupNumber(fields.group, [...path, 'group'], found);
  for (const field of Object.keys(fields)) {
    if (field === 'match') found.error([...path, field], 'is not supported yet');
    else if (field !== 'group')
      found.error([...path, field], `unknown field${suggestion(field, ['group', 'match'])}`);
  }
}

function checkGroupNumber(value: unknown, path: FieldPath, found: Findings): void {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 0xffff_ffff) return;
  found.error(path, `must be the number of a link group, 0 to 4294967295, not ${show(value)}`);
}

function toConfig(raw: RawConfig): Config {
  const groups = Object.entries(raw.interfaceGroups ?? {}).map(([name, value]) => {
    return [name, typeof value === 'number' ? value : value.group] as const;
  });
  return {
    exemptions: { ...DEFAULT_CONFIG.exemptions, ...raw.exemptions },
    interfaceGroups: { ...DEFAULT_CONFIG.interfaceGroups, ...Object.fromEntries(groups) },
    failsafe: {
      ingress: raw.failsafe?.ingress?.map(toFailsafe) ?? DEFAULT_CONFIG.failsafe.ingress,
      egress: raw.failsafe?.egress?.map(toFailsafe) ?? DEFAULT_CONFIG.failsafe.egress,
    },
    featureGates: raw.featureGates ?? DEFAULT_CONFIG.featureGates,
    dataplane: raw.dataplane ?? DEFAULT_CONFIG.dataplane,
    dispatch: raw.dispatch ?? DEFAULT_CONFIG.dispatch,
  };
}
