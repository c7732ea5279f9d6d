import { createExec } from 'ipset-ts';
import { Nftables, NftError } from 'nftables-napi';
import { siblingModule } from '../../../lib/process/sibling-module.ts';

/**
 * Whether nf_tables can do everything that our tables need; if not, `why` is the kernel's message.
 */
export type Trial = { readonly works: true } | { readonly works: false; readonly why: string };

/** One way to try nf_tables. Null: this way is not available here, another may be. */
export type TrialWay = () => Promise<Trial | null>;

const TABLE = 'inet nodewall-trial';

/**
 * Contains one of each kind of object that our tables consist of. Without the hook no packet
 * traverses it.
 */
function tableText(hook: string): string {
  return `
add table ${TABLE}
add set ${TABLE} peers { type ipv4_addr; flags interval; elements = { 192.0.2.0/25, 192.0.2.200 }; }
add set ${TABLE} services { type ipv6_addr . inet_proto . inet_service; elements = { 2001:db8::1 . tcp . 80 }; }
add chain ${TABLE} record
add rule ${TABLE} record limit rate 100/second burst 200 packets log group 7411 snaplen 128
add rule ${TABLE} record counter reject with icmpx admin-prohibited
add chain ${TABLE} peer
add rule ${TABLE} peer ip saddr @peers counter goto record
add rule ${TABLE} peer ip6 daddr . meta l4proto . th dport @services counter drop
add map ${TABLE} ports { type inet_service : verdict; flags interval; elements = { 80-90 : goto peer }; }
add chain ${TABLE} input ${hook}
add rule ${TABLE} input ct state established,related accept
add rule ${TABLE} input iifgroup 8 accept
add rule ${TABLE} input tcp dport vmap @ports
`;
}

/** One of each expression of egress gateways' rules, which kernels have as modules of their own. */
const EGRESS_TEXT = `
add map ${TABLE} restore { type mark : verdict; elements = { 0x07000000 : goto peer }; }
add map ${TABLE} arrivals { type ipv4_addr . ether_addr : verdict; elements = { 192.0.2.1 . 0e:00:00:00:00:01 : goto peer }; }
add chain ${TABLE} steer
add rule ${TABLE} steer notrack
add rule ${TABLE} steer ct mark & 0x7f000000 vmap @restore
add rule ${TABLE} steer ip saddr . ether saddr vmap @arrivals
add rule ${TABLE} steer fib saddr . iif oif missing counter drop
add rule ${TABLE} steer meta mark set meta mark & 0x87ffffff | 0x07000000
add rule ${TABLE} steer ct mark set ct mark & 0x87ffffff | 0x07000000
add rule ${TABLE} steer tcp flags syn tcp option maxseg size set rt mtu
add rule ${TABLE} steer jhash ip saddr . ip daddr mod 2 seed 0x0 vmap { 0 : goto peer, 1 : goto record }
add rule ${TABLE} steer snat ip to ip saddr
add rule ${TABLE} steer masquerade
`;

/**
 * Whether nf_tables has what the rules of egress gateways need. Throws NftError with code EPERM
 * without permission.
 */
export function tryEgress(): Promise<Trial> {
  return tryText(`${tableText('')}${EGRESS_TEXT}`);
}

/**
 * Tries nf_tables in the network namespace of this process and leaves nothing behind. Throws
 * NftError with code EPERM without permission.
 */
export function tryHere({ hooked }: { readonly hooked: boolean }): Promise<Trial> {
  return hooked
    ? tryText(tableText('{ type filter hook input priority filter; policy accept; }'), true)
    : tryText(tableText(''));
}

/** Without a hook and in one transaction, the table is never visible. */
async function tryText(text: string, hooked = false): Promise<Trial> {
  const removal = `delete table ${TABLE}`;
  let nftables: Nftables | null = null;
  try {
    nftables = new Nftables();
    if (!hooked) await nftables.run(`${text}${removal}`);
    else {
      await nftables.run(text);
      await nftables.run(removal);
    }
    return { works: true };
  } catch (error) {
    // Without permission the result is unknown, and iptables would not work either.
    if (!(error instanceof NftError) || error.code === 'EPERM') throw error;
    return { works: false, why: error.message };
  } finally {
    await nftables?.close();
  }
}

/** Tries nf_tables in a new network namespace, which this command creates. */
export function inNamespace(command: readonly [string, ...string[]]): TrialWay {
  const script = siblingModule(import.meta, 'nft-trial-child');
  const exec = createExec({ command: [...command, process.execPath, script], timeout: 30_000 });
  return async () => {
    // unshare is missing, not permitted, or took too long.
    const result = await exec([]).catch(() => null);
    return result === null || result.code !== 0 ? null : (JSON.parse(result.stdout) as Trial);
  };
}

/** A network namespace needs CAP_SYS_ADMIN, or a user namespace, which some systems forbid. */
export const TRIAL_WAYS: readonly TrialWay[] = [
  inNamespace(['unshare', '--net']),
  inNamespace(['unshare', '--map-root-user', '--net']),
  () => tryHere({ hooked: false }),
];

/** The result of the first way that is available. */
export async function tryNftables(ways: readonly TrialWay[] = TRIAL_WAYS): Promise<Trial> {
  for (const way of ways) {
    const trial = await way();
    if (trial !== null) return trial;
  }
  return { works: false, why: 'the trial could not be run' };
}
