import { fileURLToPath } from 'node:url';
import { createExec } from 'ipset-ts';
import { Nftables, NftError } from 'nftables-napi';

/** Whether nf_tables does what tables of ours need; where not, in the kernel's words. */
export type Trial = { readonly works: true } | { readonly works: false; readonly why: string };

/** One way to try it. Null: this one can't be had here, another may. */
export type TrialWay = () => Promise<Trial | null>;

const TABLE = 'inet nodewall-trial';

/** One of each kind of what tables of ours are made of. Without the hook no packet meets it. */
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

/** In the network namespace that this process is in; nothing of it is left. */
export async function tryHere({ hooked }: { readonly hooked: boolean }): Promise<Trial> {
  const removal = `delete table ${TABLE}`;
  let nftables: Nftables | null = null;
  try {
    nftables = new Nftables();
    // Without a hook and in one transaction, nobody ever sees it.
    if (!hooked) await nftables.run(`${tableText('')}${removal}`);
    else {
      await nftables.run(tableText('{ type filter hook input priority filter; policy accept; }'));
      await nftables.run(removal);
    }
    return { works: true };
  } catch (error) {
    // Without permission nothing is known, and iptables wouldn't do either.
    if (!(error instanceof NftError) || error.code === 'EPERM') throw error;
    return { works: false, why: error.message };
  } finally {
    await nftables?.close();
  }
}

/** In a network namespace of its own, made by this command. */
export function inNamespace(command: readonly [string, ...string[]]): TrialWay {
  const script = fileURLToPath(new URL('./nft-trial-child.ts', import.meta.url));
  const exec = createExec({ command: [...command, process.execPath, script], timeout: 30_000 });
  return async () => {
    // unshare is missing, isn't allowed, or took too long.
    const result = await exec([]).catch(() => null);
    return result === null || result.code !== 0 ? null : (JSON.parse(result.stdout) as Trial);
  };
}

/** A namespace takes CAP_SYS_ADMIN, or a user namespace, which some systems forbid. */
export const TRIAL_WAYS: readonly TrialWay[] = [
  inNamespace(['unshare', '--net']),
  inNamespace(['unshare', '--map-root-user', '--net']),
  () => tryHere({ hooked: false }),
];

/** What the first way says that can be had. */
export async function tryNftables(ways: readonly TrialWay[] = TRIAL_WAYS): Promise<Trial> {
  for (const way of ways) {
    const trial = await way();
    if (trial !== null) return trial;
  }
  return { works: false, why: 'it could not be tried' };
}
