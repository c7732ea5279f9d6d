import type { Netstate } from '../../../apis/egress/netstate.ts';
import { netObjects, objectText } from './net-object.ts';

/** The commands of ip(8), bridge(8) and sysctl(8) that make this network configuration, in order. */
export function netstateText(netstate: Netstate): string {
  const lines = [
    ...netObjects(netstate).map(objectText),
    ...netstate.sysctls.map(({ path, value }) => `sysctl -w ${path}=${value}`),
  ];
  return lines.map((line) => `${line}\n`).join('');
}
