import type { Config } from '../../../apis/config.ts';
import { parseConfig } from '../../../apis/config-file.ts';
import type { GateValue } from '../../../apis/stream.ts';
import { formatProblem } from '../../../apis/validate/problem.ts';
import type { ConfigMapData } from './configmap.ts';

export type GateName = keyof Config['featureGates'];

/** A gate in ConfigMap nodewall-config. */
export interface GateSetting {
  /** Null: it is not set, or the value is not valid. */
  readonly enabled: boolean | null;
  /** The reasons why it can't be read, one line each. */
  readonly problems: readonly string[];
}

/** Reads key `config.yaml`, of which only `featureGates` is used here. */
export function gateSetting(data: ConfigMapData | null, name: GateName = 'NodeNetworkPolicy'): GateSetting {
  const text = data?.['config.yaml'];
  if (text === undefined) return { enabled: null, problems: [] };
  const { config, problems } = parseConfig(text, 'config.yaml');
  const errors = problems.filter(({ severity }) => severity === 'error').map(formatProblem);
  return { enabled: config?.featureGates[name] ?? null, problems: errors };
}

/**
 * Annotations of the Lease: the last value set by a ConfigMap. One for each gate: controllers of
 * version 0.1 know the first one alone, with nothing else in it.
 */
export const GATE_ANNOTATIONS: Readonly<Record<GateName, string>> = {
  NodeNetworkPolicy: 'nodewall.io/feature-gate',
  EgressGateway: 'nodewall.io/feature-gate-egress',
};

export function formatGate(enabled: boolean, name: GateName): string {
  return `${name}=${enabled}`;
}

/** Null if the annotation is missing, or was not written by `formatGate`. */
export function parseGate(text: unknown, name: GateName): boolean | null {
  return [true, false].find((enabled) => text === formatGate(enabled, name)) ?? null;
}

/** Sources of the gate's value besides the ConfigMap. */
export interface GateSources {
  /** The value in force; null: not decided yet. */
  readonly before: GateValue | null;
  /** The last value set by a ConfigMap, from the Lease. */
  readonly stated: boolean | null;
  /** The value in the controller's own configuration. */
  readonly configured: boolean | null;
}

/** The resulting gate. */
export interface GateChange {
  readonly enabled: GateValue;
  /** Why the ConfigMap does not say it, where that has to be looked at; null: it has not. */
  readonly problem: string | null;
}

/**
 * A gate that is off removes every node's table, or lets pods leave with their node's address, so
 * it must be set explicitly: if the ConfigMap was deleted, emptied or can't be read, or doesn't
 * name the gate, the gate stays as it was. When a controller starts, that is the last value set by
 * a ConfigMap; else the value in the controller's own configuration; else it has none.
 */
export function gateAfter(
  data: ConfigMapData | null,
  { before, stated, configured }: GateSources,
  name: GateName,
): GateChange {
  const { enabled, problems } = gateSetting(data, name);
  if (problems.length === 0 && enabled !== null) return { enabled, problem: null };
  const kept = before ?? stated ?? configured ?? 'unset';
  // Nobody needs a ConfigMap before he switches on, nor EgressGateway in it without gateways.
  const isUsual = name === 'EgressGateway' ? kept !== true : data === null && kept === 'unset';
  const isConfigured = data === null && kept === configured;
  return { enabled: kept, problem: isUsual || isConfigured ? null : problemOf(data, problems, name) };
}

function problemOf(data: ConfigMapData | null, problems: readonly string[], name: GateName): string {
  const what = 'ConfigMap nodewall-config';
  if (data === null) return `there is no ${what}`;
  if (problems.length > 0) return `${what} is invalid: ${problems.join('; ')}`;
  return `${what} does not set feature gate ${name}`;
}
