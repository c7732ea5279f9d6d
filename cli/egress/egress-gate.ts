import { type Config, type DataplaneName, DEFAULT_EGRESS_GROUP } from '../../apis/config.ts';
import { EGRESS_NEEDS_NFTABLES } from '../../apis/validate/settings.ts';
import { CommandError, EXIT } from '../../lib/process/exit.ts';

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
  const { egressRefusal } = await import('../../agent/egress/apply/host-settings.ts');
  const why = dataplane === 'nftables' ? egressRefusal() : `dataplane ${EGRESS_NEEDS_NFTABLES}`;
  if (why !== null) throw new CommandError(EXIT.refused, `feature gate EgressGateway: ${why}`);
}
