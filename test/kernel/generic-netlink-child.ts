/**
 * Configures what only generic netlink does, in the network namespace that it is started in.
 *
 * generic-netlink-child.ts wireguard INDEX JSON: keys and the one peer of a device.
 * generic-netlink-child.ts ipvs JSON: a virtual server with one real server behind NAT. ENOENT on
 * standard error where the kernel has no IPVS.
 */
import { WireGuardSocket } from 'nftables-napi';
import {
  attribute,
  NLM_F_REQUEST,
  nest,
  textBytes,
  toMessage,
  u16,
  u32,
} from '../../agent/nftables-napi/lib/netlink-message.ts';
import { RawSocket } from '../../agent/nftables-napi/lib/raw-socket.ts';
import { familyRequest, GENERIC, toFamilyId } from '../../agent/nftables-napi/lib/wireguard.ts';
import { parseAddress } from '../../lib/net/address.ts';
import { packAddress } from '../../lib/net/member-set.ts';

/** Of one end of a tunnel; keys in base64. */
export interface WireGuardEnd {
  readonly privateKey: string;
  readonly peerKey: string;
  readonly endpoint: string;
  readonly port: number;
  /** Addresses and the lengths of their prefixes. */
  readonly allowed: readonly (readonly [address: string, length: number])[];
}

/** A TCP service by IPv4. */
export interface VirtualServer {
  readonly address: string;
  readonly port: number;
  readonly real: { readonly address: string; readonly port: number };
}

/** linux/ip_vs.h: commands, attributes, and IP_VS_CONN_F_MASQ. */
const IPVS = {
  family: 'IPVS',
  version: 1,
  newService: 1,
  newDestination: 5,
  service: 1,
  destination: 2,
  ofService: { family: 1, protocol: 2, address: 3, port: 4, scheduler: 6, flags: 7, timeout: 8, netmask: 9 },
  ofDestination: { address: 1, port: 2, method: 3, weight: 4, upper: 5, lower: 6, family: 11 },
  masquerade: 0,
} as const;
const AF_INET = 2;
const TCP = 6;
const HOST_MASK = 0xffffffff;

const [what = '', ...rest] = process.argv.slice(2);
if (what === 'wireguard') await wireguard(Number(rest[0]), JSON.parse(rest[1] ?? ''));
else if (what === 'ipvs') await ipvs(JSON.parse(rest[0] ?? ''));
else throw new Error(`wireguard or ipvs, not ${what}`);

async function wireguard(index: number, it: WireGuardEnd): Promise<void> {
  const socket = new WireGuardSocket();
  const privateKey = Buffer.from(it.privateKey, 'base64');
  await socket.change(index, {
    device: { port: it.port, mark: 0, privateKey, replacePeers: true },
    removed: [],
    peers: [
      {
        publicKey: Buffer.from(it.peerKey, 'base64'),
        endpoint: bytesOf(it.endpoint),
        port: it.port,
        allowed: it.allowed.map(([address, prefixLength]) => ({ address: bytesOf(address), prefixLength })),
      },
    ],
  });
  await socket.close();
}

async function ipvs({ address, port, real }: VirtualServer): Promise<void> {
  const socket = new RawSocket(GENERIC, 'IPVS');
  const family = await familyOf(socket);
  const { ofService, ofDestination } = IPVS;
  const key = [
    attribute(ofService.family, u16(AF_INET)),
    attribute(ofService.protocol, u16(TCP)),
    attribute(ofService.address, sixteen(address)),
    attribute(ofService.port, bigEndian(port)),
  ];
  const service = [
    ...key,
    attribute(ofService.scheduler, textBytes('rr')),
    // struct ip_vs_flags: flags and the mask of those that are meant.
    attribute(ofService.flags, Buffer.concat([u32(0), u32(HOST_MASK)])),
    attribute(ofService.timeout, u32(0)),
    attribute(ofService.netmask, u32(HOST_MASK)),
  ];
  const destination = [
    attribute(ofDestination.address, sixteen(real.address)),
    attribute(ofDestination.port, bigEndian(real.port)),
    attribute(ofDestination.method, u32(IPVS.masquerade)),
    attribute(ofDestination.weight, u32(1)),
    attribute(ofDestination.upper, u32(0)),
    attribute(ofDestination.lower, u32(0)),
    attribute(ofDestination.family, u16(AF_INET)),
  ];
  const answers = await socket.exchange(
    [
      request(family, IPVS.newService, [nest(IPVS.service, service)]),
      request(family, IPVS.newDestination, [nest(IPVS.service, key), nest(IPVS.destination, destination)]),
    ],
    (index) => ['virtual server', 'real server'][index] ?? '',
  );
  for (const { error } of answers) if (error !== null) throw error;
  await socket.close();
}

async function familyOf(socket: RawSocket): Promise<number> {
  const [answer] = await socket.exchange([familyRequest(IPVS.family)], () => 'IPVS of this kernel');
  if (answer?.error) throw answer.error;
  const id = answer?.messages.map(toFamilyId).find((one) => one !== null);
  if (id === undefined || id === null) throw new Error('the kernel gave no number of its IPVS');
  return id;
}

function request(family: number, command: number, attributes: readonly Uint8Array[]): Uint8Array {
  return toMessage(family, NLM_F_REQUEST, [Uint8Array.of(command, IPVS.version, 0, 0), ...attributes]);
}

function bytesOf(text: string): Uint8Array {
  const address = parseAddress(text);
  if (address === null) throw new Error(`${text} is no address`);
  return packAddress(address);
}

/** union nf_inet_addr. */
function sixteen(text: string): Uint8Array {
  return Buffer.concat([bytesOf(text), Buffer.alloc(12)]);
}

function bigEndian(port: number): Uint8Array {
  return Uint8Array.of(port >> 8, port & 0xff);
}
