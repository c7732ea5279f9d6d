import { OWN_NETWORK } from '../../apis/egress/netstate.ts';
import type { RuleExtension } from '../extension/extension.ts';
import { ARP_TABLE, arpTableText, toArpTable } from './render/arp-table.ts';
import { egressIds } from './render/counted.ts';
import { egressRenderer } from './render/render-egress.ts';
import { isOfTunnel } from './render/tunnel-flow.ts';

/** Egress gateways in stage 5. */
export const EGRESS_RULES: RuleExtension = {
  renderer(config) {
    const render = egressRenderer(config);
    return ({ egress = null }) => render(egress);
  },
  tables({ egress = null }) {
    const arp = toArpTable(egress);
    return arp === null ? [] : [{ ...ARP_TABLE, text: arpTableText(arp) }];
  },
  countIds: ({ egress }) => (egress === undefined ? [] : egressIds(egress)),
  isExempt: (flow, config, { egress }) => egress !== undefined && isOfTunnel(flow, config, egress),
  links: [OWN_NETWORK.floating.link, ...Object.keys(OWN_NETWORK.links)],
};
