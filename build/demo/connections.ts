/**
 * The connections, and what the policy's two sentences say about them: written by hand, not
 * computed.
 */
import type { Verdict } from '../../apis/flow.ts';
import type { AddressPlan } from '../../test/netns/topology.ts';

export type PlaceName = keyof typeof PLACES;

/** The machines, with an address of each family. cp-1 and worker-1 are the Nodes of nodes.yaml. */
export const PLACES = {
  'cp-1': { v4: '192.168.10.11', v6: 'fd00:10::11' },
  'worker-1': { v4: '192.168.10.21', v6: 'fd00:10::21' },
  office: { v4: '10.0.0.7', v6: 'fd00:20::7' },
  outsider: { v4: '203.0.113.9', v6: '2001:db8::9' },
} as const;

/** The node that nodewall protects here. */
export const NODE = 'cp-1';
export const CLIENTS = ['worker-1', 'office', 'outsider'] as const;

export interface DemoConnection {
  readonly from: PlaceName;
  readonly to: PlaceName;
  readonly family: 4 | 6;
  readonly protocol: 'tcp' | 'udp';
  readonly port: number;
  /** Under the flagship policy. */
  readonly first: Verdict;
  /** After the change: SSH for the outsider's networks, and a Reject for 10.0.0.0/24. */
  readonly second: Verdict;
}

type Row = readonly [PlaceName, 4 | 6, PlaceName, 'tcp' | 'udp', number, Verdict, Verdict];

const ROWS: readonly Row[] = [
  // "All Nodes … may reach TCP 6443"
  ['worker-1', 4, 'cp-1', 'tcp', 6443, 'Allow', 'Allow'],
  ['worker-1', 6, 'cp-1', 'tcp', 6443, 'Allow', 'Allow'],
  // The failsafe list: kubelet and etcd ports, from Nodes.
  ['worker-1', 4, 'cp-1', 'tcp', 10250, 'Allow', 'Allow'],
  ['worker-1', 6, 'cp-1', 'tcp', 2379, 'Allow', 'Allow'],
  ['worker-1', 4, 'cp-1', 'tcp', 22, 'Drop', 'Drop'],
  // "… and 10.0.0.0/24"
  ['office', 4, 'cp-1', 'tcp', 6443, 'Allow', 'Reject'],
  ['office', 4, 'cp-1', 'tcp', 22, 'Drop', 'Reject'],
  ['office', 4, 'cp-1', 'udp', 123, 'Drop', 'Reject'],
  // "everything else is dropped"
  ['outsider', 4, 'cp-1', 'tcp', 6443, 'Drop', 'Drop'],
  ['outsider', 6, 'cp-1', 'tcp', 6443, 'Drop', 'Drop'],
  ['outsider', 4, 'cp-1', 'tcp', 10250, 'Drop', 'Drop'],
  ['outsider', 4, 'cp-1', 'tcp', 22, 'Drop', 'Allow'],
  ['outsider', 6, 'cp-1', 'tcp', 22, 'Drop', 'Allow'],
  // The policy has no egress rules.
  ['cp-1', 6, 'worker-1', 'udp', 53, 'Allow', 'Allow'],
];

export const CONNECTIONS: readonly DemoConnection[] = ROWS.map(
  ([from, family, to, protocol, port, first, second]) => ({
    from,
    family,
    to,
    protocol,
    port,
    first,
    second,
  }),
);

/** Address of a machine in the connection's family. */
export function machineAddress(place: PlaceName, family: 4 | 6): string {
  return family === 4 ? PLACES[place].v4 : PLACES[place].v6;
}

/** `tcp:6443 …`: what must listen on a machine. */
export function listenersOf(place: PlaceName): string[] {
  const wanted = CONNECTIONS.filter(({ to }) => to === place);
  return [...new Set(wanted.map(({ protocol, port }) => `${protocol}:${port}`))];
}

export function demoAddressPlan(): AddressPlan {
  return {
    nodeAddresses: [PLACES[NODE]],
    clientAddresses: CLIENTS.map((name, client) => ({ ...PLACES[name], client, group: 0 })),
    multicastGroups: [],
  };
}

/** A connection as `nodewall explain` takes it, seen from the protected node. */
export function flowOfConnection({ from, to, family, protocol, port }: DemoConnection): object {
  return {
    direction: to === NODE ? 'ingress' : 'egress',
    src: machineAddress(from, family),
    dst: machineAddress(to, family),
    protocol,
    dstPort: port,
  };
}
