import { parseConfig } from '../../../apis/config-file.ts';
import { formatProblem } from '../../../apis/validate/problem.ts';
import type { ConfigMapData } from './configmap.ts';

/** The gate NodeNetworkPolicy in ConfigMap nodewall-config. */
export interface GateSetting {
  /** Null: it is not set, or the value is not valid. */
  readonly enabled: boolean | null;
  /** The reasons why it can't be read, one line each. */
  readonly problems: readonly string[];
}

/** Reads key `config.yaml`, of which only `featureGates` is used here. */
export function gateSetting(data: ConfigMapData | null): GateSetting {
  const text = data?.['config.yaml'];
  if (text === undefined) return { enabled: null, problems: [] };
  const { config, problems } = parseConfig(text, 'config.yaml');
  const errors = problems.filter(({ severity }) => severity === 'error').map(formatProblem);
  const gates = config?.featureGates ?? {};
  return {
    enabled: gates.NodeNetworkPolicy ?? null,
    problems: gates.EgressGateway === true ? [...errors, NO_EGRESS] : errors,
  };
}

const NO_EGRESS = 'config.yaml: featureGates.EgressGateway: is not built for clusters yet; remove it';

/** Annotation of the Lease: the last value set by a ConfigMap. */
export const GATE_ANNOTATION = 'nodewall.io/feature-gate';

export function formatGate(enabled: boolean): string {
  return `NodeNetworkPolicy=${enabled}`;
}

/** Null if the annotation is missing, or was not written by `formatGate`. */
export function parseGate(text: unknown): boolean | null {
  return [true, false].find((enabled) => text === formatGate(enabled)) ?? null;
}

/** Sources of the gate's value besides the ConfigMap. */
export interface GateSources {
  /** The value in force; null: none yet. */
  readonly before: boolean | null;
  /** The last value set by a ConfigMap, from the Lease. */
  readonly stated: boolean | null;
  /** The value in the controller's own configuration. */
  readonly configured: boolean | null;
}

/** The resulting gate. */
export interface GateChange {
  readonly enabled: boolean;
  /**
   * The reason why it differs from the ConfigMap; null if it doesn't, or if there is no ConfigMap.
   */
  readonly problem: string | null;
}

/**
 * A gate that is off removes every node's table, so it must be set explicitly: if the ConfigMap was
 * deleted, emptied or can't be read, the gate stays as it was. When a controller starts, that is
 * the last value set by a ConfigMap; else the value in the controller's own configuration; else
 * off.
 */
export function gateAfter(
  data: ConfigMapData | null,
  { before, stated, configured }: GateSources,
): GateChange {
  const { enabled, problems } = gateSetting(data);
  if (problems.length === 0 && enabled !== null) return { enabled, problem: null };
  const kept = before ?? stated ?? configured ?? false;
  return { enabled: kept, problem: data === null ? null : problemOf(problems) };
}

function problemOf(problems: readonly string[]): string {
  const what = 'ConfigMap nodewall-config';
  if (problems.length > 0) return `${what} is invalid: ${problems.join('; ')}`;
  return `${what} does not set feature gate NodeNetworkPolicy`;
}
