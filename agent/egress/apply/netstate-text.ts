import type { Netstate } from '../../../apis/egress/netstate.ts';
import { type NetObject, netObjects, objectText } from './net-object.ts';
import { peersText } from './wireguard.ts';

/**
 * The commands of ip(8), bridge(8) and sysctl(8) that make this network configuration, in order.
 */
export function netstateText(netstate: Netstate): string {
  const objects = netObjects(netstate);
  const isLink = ({ kind }: NetObject): boolean => kind === 'link';
  const lines = [
    ...objects.filter(isLink).map(objectText),
    ...peersText(netstate),
    ...netstate.sysctls.map(({ path, value }) => `sysctl -w ${path}=${value}`),
    ...objects.filter((it) => !isLink(it)).map(objectText),
  ];
  return lines.map((line) => `${line}\n`).join('');
}
