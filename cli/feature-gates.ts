import { type Config, withEgressGroup } from '../apis/config.ts';
import { CommandError, EXIT } from '../lib/process/exit.ts';

const GATE = /^(NodeNetworkPolicy|EgressGateway)=(true|false)$/;

/**
 * The feature gates in `--feature-gates`; of each the last one counts. Throws a CommandError for
 * any other text.
 */
export function parseFeatureGates(gates: string): Config['featureGates'] {
  const parsed: { NodeNetworkPolicy?: boolean; EgressGateway?: boolean } = {};
  for (const gate of gates.split(',')) {
    const [, name, value] = GATE.exec(gate.trim()) ?? [];
    if (name === undefined) {
      throw new CommandError(
        EXIT.usage,
        `--feature-gates: ${JSON.stringify(gate)}: must be NodeNetworkPolicy=true or NodeNetworkPolicy=false; the other gate is EgressGateway`,
      );
    }
    parsed[name as keyof typeof parsed] = value === 'true';
  }
  return parsed;
}

/** The configuration, with the gates of `--feature-gates` before its own. */
export function withFeatureGates(config: Config, gates: string | undefined): Config {
  if (gates === undefined) return config;
  return withEgressGroup({
    ...config,
    featureGates: { ...config.featureGates, ...parseFeatureGates(gates) },
  });
}
