import { parseConfig } from '../../apis/config-file.ts';
import { formatProblem } from '../../apis/validate/problem.ts';
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

/** What becomes of the gate. */
export interface GateChange {
  /** Null: not known. */
  readonly enabled: boolean | null;
  /** Why it is not what the ConfigMap says; null where it is, or where the configuration says it in its place. */
  readonly problem: string | null;
}

/**
 * Off takes every node's table away, so only who says off gets it: a ConfigMap that was deleted, emptied or can't be read leaves the gate as it was. Where
 * it was nothing yet, the process's own configuration decides; where that says nothing either, it stays unknown.
 */
export function gateAfter(
  before: boolean | null,
  { enabled, problems }: GateSetting,
  configured: boolean | null,
): GateChange {
  const what = 'ConfigMap nodewall-config';
  if (problems.length > 0) {
    return { enabled: before, problem: `${what} can't be read: ${problems.join('; ')}` };
  }
  if (enabled !== null) return { enabled, problem: null };
  if (before === null && configured !== null) return { enabled: configured, problem: null };
  const isConfigured = before !== null && before === configured;
  const problem = isConfigured
    ? null
    : `${what} says nothing of feature gate NodeNetworkPolicy: true or false`;
  return { enabled: before, problem };
}
