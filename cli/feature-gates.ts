import { type Config, type DataplaneName, DEFAULT_EGRESS_GROUP, withEgressGroup } from '../apis/config.ts';
import { EGRESS_NEEDS_NFTABLES } from '../apis/validate/settings.ts';
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

/** Throws a CommandError if egress gateways are on where they can't be enforced. */
export function checkEgressGate({ featureGates, dataplane, interfaceGroups }: Config): void {
  if (featureGates.EgressGateway !== true) return;
  if (interfaceGroups.egress === undefined) {
    throw new CommandError(
      EXIT.usage,
      `feature gate EgressGateway: interfaceGroups has another name for the link group ${DEFAULT_EGRESS_GROUP}; add egress: NUMBER, with a free number`,
    );
  }
  if (dataplane === 'iptables') {
    throw new CommandError(EXIT.usage, `feature gate EgressGateway: dataplane ${EGRESS_NEEDS_NFTABLES}`);
  }
}

/** Throws a CommandError if a stand-alone agent would have to encrypt the tunnel. */
export function checkEgressAlone({ featureGates, egress }: Config): void {
  if (featureGates.EgressGateway !== true || egress.encryption === 'None') return;
  throw new CommandError(
    EXIT.usage,
    `egress.encryption: ${egress.encryption} needs a cluster, whose controller tells agents the keys of the others; set None for --manifests`,
  );
}

/** Throws a CommandError if egress gateways are on and this machine cannot have them. */
export async function checkEgressHost({ featureGates }: Config, dataplane: DataplaneName): Promise<void> {
  if (featureGates.EgressGateway !== true) return;
  const { KERNEL_EXTENSION } = await import('../agent/extension/kernel.ts');
  const why =
    dataplane === 'nftables' ? await KERNEL_EXTENSION.refusal() : `dataplane ${EGRESS_NEEDS_NFTABLES}`;
  if (why !== null) throw new CommandError(EXIT.refused, `feature gate EgressGateway: ${why}`);
}
