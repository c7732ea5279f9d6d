/** Makes the links of link-kinds.ts between two machines. */
import { generateKeyPairSync } from 'node:crypto';
import { join } from 'node:path';
import type { Namespace } from '../netns/namespace.ts';
import type { WireGuardEnd } from './generic-netlink-child.ts';
import { INSIDE, type LinkKind, UNDERLAY, WIREGUARD_PORT } from './link-kinds.ts';

const CHILD = join(import.meta.dirname, 'generic-netlink-child.ts');
/** Messages of ip about a kind that the kernel lacks. */
const LACKING = /Unknown device type|not supported/i;

/** `nic`, with the addresses of the underlay, and `eth1`. */
export async function layCables(node: Namespace, peer: Namespace): Promise<void> {
  await ipBatch(node, [
    'link set lo up',
    ...['nic', 'eth1'].flatMap((name) => [
      `link add ${name} type veth peer name ${name} netns ${peer.pid}`,
      `link set ${name} up`,
    ]),
    `addr add ${UNDERLAY.node}/24 dev nic`,
  ]);
  await ipBatch(peer, ['link set lo up', 'link set nic up', 'link set eth1 up']);
  await ipBatch(peer, [`addr add ${UNDERLAY.peer}/24 dev nic`]);
}

/** Makes the link at both ends. Returns what the kernel lacks, or null. */
export async function makeLink(node: Namespace, peer: Namespace, link: LinkKind): Promise<string | null> {
  try {
    await ipBatch(node, link.node);
    await ipBatch(peer, link.peer);
  } catch (error) {
    const text = String(error);
    if (LACKING.test(text)) return 'this kernel has none';
    throw error;
  }
  if (link.kind === 'wireguard') await giveKeys(node, peer, link);
  // Sockets that are not bound to a VRF hear from it too.
  if (!link.isDefault) await node.run(['sysctl', '-qw', 'net.ipv4.tcp_l3mdev_accept=1']);
  for (const [namespace, name, end] of [
    [node, link.name, 'node'],
    [peer, link.peerName, 'peer'],
  ] as const)
    await ipBatch(namespace, [
      `link set ${name} up`,
      `addr add ${INSIDE[4][end]}/24 dev ${name}`,
      ...(link.families.includes(6) ? [`addr add ${INSIDE[6][end]}/64 dev ${name} nodad`] : []),
    ]);
  return null;
}

/** `ip …`; several commands as lines. */
export async function ipBatch(namespace: Namespace, lines: readonly string[]): Promise<void> {
  await namespace.run(['ip', '-batch', '-'], { stdin: `${lines.join('\n')}\n` });
}

async function giveKeys(node: Namespace, peer: Namespace, { name }: LinkKind): Promise<void> {
  const [own, other] = [keyPair(), keyPair()];
  await giveKey(node, name, endOf(own.privateKey, other.publicKey, 'peer'));
  await giveKey(peer, name, endOf(other.privateKey, own.publicKey, 'node'));
}

/** Keys of WireGuard, in base64. */
function keyPair(): { readonly privateKey: string; readonly publicKey: string } {
  const { privateKey } = generateKeyPairSync('x25519');
  const { d = '', x = '' } = privateKey.export({ format: 'jwk' });
  return { privateKey: d, publicKey: x };
}

/** @param to the other end */
function endOf(privateKey: string, peerKey: string, to: 'node' | 'peer'): WireGuardEnd {
  const allowed = [
    // Pods of the other machine, too.
    ['198.18.0.0', 24],
    [INSIDE[6][to], 128],
  ] as const;
  return { privateKey, peerKey, endpoint: UNDERLAY[to], port: WIREGUARD_PORT, allowed };
}

async function giveKey(namespace: Namespace, name: string, end: WireGuardEnd): Promise<void> {
  const { stdout } = await namespace.run(['ip', '-j', 'link', 'show', name]);
  const [{ ifindex }] = JSON.parse(stdout);
  await namespace.run([process.execPath, CHILD, 'wireguard', String(ifindex), JSON.stringify(end)]);
}
