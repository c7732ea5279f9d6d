import { parseConfig } from '../../../apis/config-file.ts';
import { formatProblem } from '../../../apis/validate/problem.ts';
import type { ConfigMapData } from './configmap.ts';

/** What nodewall-config says of the gate NodeNetworkPolicy. */
export interface GateSetting {
  /** Null: nothing is said, or nothing that can be read. */
  readonly enabled: boolean | null;
  /** Why it can't be read, a line each. */
  readonly problems: readonly string[];
}

/** Key `config.yaml`, of which `featureGates` alone matters here. */
export function gateSetting(data: ConfigMapData | null): GateSetting {
  const text = data?.['config.yaml'];
  if (text === undefined) return { enabled: null, problems: [] };
  const { config, problems } = parseConfig(text, 'config.yaml');
  return {
    enabled: config?.featureGates.NodeNetworkPolicy ?? null,
    problems: problems.filter(({ severity }) => severity === 'error').map(formatProblem),
  };
}

/** Annotation of the Lease: the value that a ConfigMap stated last. */
export const GATE_ANNOTATION = 'nodewall.io/feature-gate';

export function formatGate(enabled: boolean): string {
  return `NodeNetworkPolicy=${enabled}`;
}

/** Null where the annotation is missing, or is nothing that `formatGate` writes. */
export function parseGate(text: unknown): boolean | null {
  return [true, false].find((enabled) => text === formatGate(enabled)) ?? null;
}

/** What is known of the gate besides the ConfigMap. */
export interface GateSources {
  /** The value in force; null: none yet. */
  readonly before: boolean | null;
  /** The value that a ConfigMap stated last, as the Lease has it. */
  readonly stated: boolean | null;
  /** By the controller's own configuration. */
  readonly configured: boolean | null;
}

/** What becomes of the gate. */
export interface GateChange {
  readonly enabled: boolean;
  /** Why it is not what the ConfigMap says; null where it is, or where there is no ConfigMap. */
  readonly problem: string | null;
}

/**
 * Off takes every node's table away, so only who says off gets it: where the ConfigMap was deleted,
 * emptied or can't be read, the gate stays as it was. At the start of a controller that is what was
 * stated last; else the controller's own configuration; else off.
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
  if (problems.length > 0) return `${what} can't be read: ${problems.join('; ')}`;
  return `${what} says nothing of feature gate NodeNetworkPolicy: true or false`;
}
