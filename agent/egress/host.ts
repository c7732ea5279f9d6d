import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import type { EgressTake, NodeEgress } from '../../apis/egress/node-egress.ts';

/** This machine's interfaces, as far as egress gateways depend on them. */
export interface Host {
  /** MTU of the interface that has the address; null: none has it. */
  mtuOf(address: string): number | null;
  /** Addresses of the interface that other machines can answer to. */
  addressesOf(link: string): readonly string[];
}

export const HOST: Host = {
  mtuOf(address) {
    const found = Object.entries(networkInterfaces()).find(([, addresses]) =>
      addresses?.some((one) => one.address === address),
    );
    if (found === undefined) return null;
    try {
      return Number(readFileSync(`/sys/class/net/${found[0]}/mtu`, 'utf8'));
    } catch {
      return null; // gone since
    }
  },
  addressesOf: (link) =>
    (networkInterfaces()[link] ?? [])
      .filter(
        ({ address, scopeid }) => scopeid === undefined || scopeid === 0 || !address.startsWith('fe80:'),
      )
      .map(({ address }) => address),
};

/** Takes by the address of an interface become takes by that address, the interface's first one. */
export function withInterfaceAddresses(egress: NodeEgress, host: Host): NodeEgress {
  if (![...egress.takes.values()].some((take) => take.kind === 'node' && take.interface !== null))
    return egress;
  const known = (take: EgressTake): EgressTake => {
    if (take.kind !== 'node' || take.interface === null) return take;
    const addresses = host.addressesOf(take.interface);
    const first = (isV6: boolean): string[] =>
      addresses.filter((address) => address.includes(':') === isV6).slice(0, 1);
    return { kind: 'floating', ipv4: first(false), ipv6: first(true) };
  };
  return { ...egress, takes: new Map([...egress.takes].map(([number, take]) => [number, known(take)])) };
}
