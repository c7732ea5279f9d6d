import type { Config } from '../../apis/config.ts';
import { comment } from './nft-text.ts';
import { type Chain, type NftRule, plainChain, plainRule } from './ruleset.ts';

const FIRST_BY_VRF = 'first-by-vrf';

/**
 * Accepts packets that the node judges later: what it sends by an interface in a VRF passes the
 * output hook twice, first by the VRF device, which has left it untracked (Linux 5.16, and Debian's
 * 5.10), then by the interface, like all others (drivers/net/vrf.c: vrf_ip_out, vrf_ip6_out).
 *
 * By the VRF device, and only once, goes what the node sends to itself in the VRF. It is tracked,
 * unless another table says otherwise; so this is for nodes with the exemption loopback alone.
 *
 * A packet that another table's rules have routed anew (ip_route_me_harder, after a mark for one)
 * does not come to its second pass where the VRF device, and not the interface, was its way: behind
 * a queue, and where a route from outside the VRF leads to the device. The latter is tracked, too,
 * unless another table says otherwise.
 *
 * @param vrfs names of VRF devices that are up, and without a queue
 */
export function firstPasses(
  { exemptions }: Pick<Config, 'exemptions'>,
  vrfs: readonly string[],
): { readonly rules: readonly NftRule[]; readonly chains: readonly Chain[] } {
  if (!exemptions.loopback || vrfs.length === 0) return { rules: [], chains: [] };
  const byVrf = vrfs.map(
    (device): NftRule => ({
      ...plainRule({ kind: 'accept' }, { match: 'toVrf', device }),
      comment: comment('its second pass is judged'),
    }),
  );
  return {
    // Other packets that come this far are the first ones of connections.
    rules: [plainRule({ kind: 'jump', chain: FIRST_BY_VRF }, { match: 'ctUntracked' })],
    chains: [plainChain(FIRST_BY_VRF, byVrf)],
  };
}
