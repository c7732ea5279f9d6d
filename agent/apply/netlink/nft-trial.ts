import { createExec } from 'ipset-ts';
import { Nftables, NftError } from 'nftables-napi';
import { siblingModule } from '../../../lib/process/exit.ts';
import { isCrash, runApart } from './nft-apart.ts';

/**
 * Whether nf_tables can do everything that our tables need; if not, `why` names what is missing,
 * with the kernel's message.
 */
export type NftTrial = { readonly works: true } | { readonly works: false; readonly why: string };

/** One way to try nf_tables. Null: this way is not available here, another may be. */
type TrialWay = () => Promise<NftTrial | null>;

/**
 * Whether nf_tables has what the rules of egress gateways need. Throws NftError with code EPERM
 * without permission.
 */
export function tryEgress(): Promise<NftTrial> {
  return tryHere({ hooked: false, egress: true });
}

/**
 * Tries nf_tables in the network namespace of this process and leaves nothing behind. Throws
 * NftError with code EPERM without permission.
 *
 * @param hooked whether packets may traverse it: in a new network namespace, without sets of others
 */
export async function tryHere({
  hooked,
  egress = false,
}: {
  readonly hooked: boolean;
  readonly egress?: boolean;
}): Promise<NftTrial> {
  const needs = nftNeeds({ hooked, egress });
  let alone: Nftables | null = null;
  try {
    const nft = hooked ? new Nftables() : null;
    alone = nft;
    return await tryNeeds(needs, async (text) => {
      // In one transaction the table is never visible. A hook is registered only by a commit.
      await (nft === null ? runApart(`${text}${REMOVAL}`) : nft.run(text));
      await nft?.run(REMOVAL);
    });
  } catch (error) {
    // A later nft works here, so nf_tables does; what it lacks is named when rules are applied.
    if (isCrash(error)) return { works: true };
    // Without permission the result is unknown, and iptables would not work either.
    if (!(error instanceof NftError) || error.code === 'EPERM') throw error;
    return { works: false, why: error.message };
  } finally {
    await alone?.close();
  }
}

const TRIAL_TABLE = 'inet nodewall-trial';
const REMOVAL = `delete table ${TRIAL_TABLE}\n`;

/** Tries all at once; if that fails, each by itself, to name what the kernel lacks. */
export async function tryNeeds(
  needs: readonly NftNeed[],
  run: (text: string) => Promise<void>,
): Promise<NftTrial> {
  const all = await refusal(run, needs);
  if (all === null) return { works: true };
  const [table, ...rest] = needs;
  if (table === undefined || (await refusal(run, [table])) !== null)
    return {
      works: false,
      why: table === undefined ? all.message : `${missingText([table])}: ${all.message}`,
    };
  const missing: NftNeed[] = [];
  for (const need of rest) if ((await refusal(run, [table, need])) !== null) missing.push(need);
  const why = missing.length === 0 ? all.message : `${missingText(missing)}: ${all.message}`;
  return { works: false, why };
}

async function refusal(
  run: (text: string) => Promise<void>,
  needs: readonly NftNeed[],
): Promise<NftError | null> {
  try {
    await run(needs.map(({ text }) => text).join(''));
    return null;
  } catch (error) {
    if (!(error instanceof NftError) || error.code === 'EPERM' || isCrash(error)) throw error;
    return error;
  }
}

/** Tries nf_tables in a new network namespace, which this command creates. */
function inNamespace(command: readonly [string, ...string[]]): TrialWay {
  const script = siblingModule(import.meta, 'nft-trial-child');
  const exec = createExec({ command: [...command, process.execPath, script], timeout: 30_000 });
  return async () => {
    // unshare is missing, not permitted, or took too long.
    const result = await exec([]).catch(() => null);
    return result === null || result.code !== 0 ? null : (JSON.parse(result.stdout) as NftTrial);
  };
}

/** A network namespace needs CAP_SYS_ADMIN, or a user namespace, which some systems forbid. */
export const TRIAL_WAYS: readonly TrialWay[] = [
  inNamespace(['unshare', '--net']),
  inNamespace(['unshare', '--map-root-user', '--net']),
  () => tryHere({ hooked: false }),
];

/** The result of the first way that is available. */
export async function tryNftables(ways: readonly TrialWay[] = TRIAL_WAYS): Promise<NftTrial> {
  for (const way of ways) {
    const trial = await way();
    if (trial !== null) return trial;
  }
  return { works: false, why: 'the trial could not be run' };
}

/** A part of nf_tables that our tables need, which a kernel may have as a module of its own. */
interface NftNeed {
  readonly what: string;
  readonly module: string;
  /** The option of the kernel's configuration. */
  readonly option: string;
  /** Commands that need it, and the chains `record` and `peer` besides, in table TRIAL_TABLE. */
  readonly text: string;
}

const rule = (text: string): string => `add rule ${TRIAL_TABLE} record ${text}\n`;

const core = { module: 'nf_tables', option: 'CONFIG_NF_TABLES' } as const;

/** The objects in which the others are tried. */
const TABLE: NftNeed = {
  what: 'tables of both families (inet)',
  module: 'nf_tables',
  option: 'CONFIG_NF_TABLES_INET',
  text: `add table ${TRIAL_TABLE}\nadd chain ${TRIAL_TABLE} record\nadd chain ${TRIAL_TABLE} peer\n`,
};

/** Packets traverse it, so it is tried only in a network namespace of its own. */
const BASE_CHAIN: NftNeed = {
  what: 'base chains (hook input)',
  module: 'nf_tables',
  option: 'CONFIG_NF_TABLES_INET',
  text: `add chain ${TRIAL_TABLE} input { type filter hook input priority filter; policy accept; }\n`,
};

/** One of each kind of object and expression that every node's table may consist of. */
const OF_NODES: readonly NftNeed[] = [
  {
    ...core,
    what: 'sets of ranges',
    text: `add set ${TRIAL_TABLE} peers { type ipv4_addr; flags interval; elements = { 192.0.2.0/25, 192.0.2.200 }; }\n${rule('ip saddr @peers goto peer')}`,
  },
  {
    ...core,
    what: 'sets of several fields',
    text: `add set ${TRIAL_TABLE} services { type ipv6_addr . inet_proto . inet_service; elements = { 2001:db8::1 . tcp . 80 }; }\n${rule('ip6 daddr . meta l4proto . th dport @services drop')}`,
  },
  {
    ...core,
    what: 'sets with timeouts',
    text: `add set ${TRIAL_TABLE} timed { type ipv4_addr; flags timeout; elements = { 0.0.0.0 timeout 30s }; }\n${rule('ip saddr & 0.0.0.0 != @timed accept')}`,
  },
  {
    ...core,
    what: 'verdict maps',
    text: `add map ${TRIAL_TABLE} ports { type inet_service : verdict; flags interval; elements = { 80-90 : goto peer }; }\n${rule('tcp dport vmap @ports')}`,
  },
  { ...core, what: 'link groups (iifgroup)', text: rule('iifgroup 8 accept') },
  { what: 'counters', module: 'nft_counter', option: 'CONFIG_NFT_COUNTER', text: rule('counter accept') },
  {
    what: 'limits',
    module: 'nft_limit',
    option: 'CONFIG_NFT_LIMIT',
    text: rule('limit rate 100/second burst 200 packets accept'),
  },
  {
    what: 'log',
    module: 'nft_log',
    option: 'CONFIG_NFT_LOG',
    text: rule('log group 7411 snaplen 128'),
  },
  {
    what: 'reject',
    module: 'nft_reject_inet',
    option: 'CONFIG_NFT_REJECT_INET',
    text: rule('reject with icmpx admin-prohibited'),
  },
  {
    what: 'connection tracking (ct)',
    module: 'nft_ct',
    option: 'CONFIG_NFT_CT',
    text: rule('ct state established,related accept'),
  },
  {
    what: 'fib',
    module: 'nft_fib_inet',
    option: 'CONFIG_NFT_FIB_INET',
    text: `${rule('fib saddr type local drop')}${rule('fib daddr type local accept')}`,
  },
];

/** One of each expression of egress gateways' rules besides. */
const OF_EGRESS: readonly NftNeed[] = [
  {
    ...core,
    what: 'verdict maps of marks and hardware addresses',
    text: `add map ${TRIAL_TABLE} restore { type mark : verdict; elements = { 0x07000000 : goto peer }; }
add map ${TRIAL_TABLE} arrivals { type ipv4_addr . ether_addr : verdict; elements = { 192.0.2.1 . 0e:00:00:00:00:01 : goto peer }; }
${rule('ip saddr . ether saddr vmap @arrivals')}`,
  },
  {
    what: 'connection tracking (notrack, ct mark, ct label)',
    module: 'nft_ct',
    option: 'CONFIG_NFT_CT',
    text: `${rule('notrack')}${rule('ct mark & 0x7f000000 0x07000000 accept')}${rule('ct mark set ct mark & 0x87ffffff | 0x07000000')}${rule('ct label set 5')}`,
  },
  {
    what: 'fib … oif missing',
    module: 'nft_fib_inet',
    option: 'CONFIG_NFT_FIB_INET',
    text: rule('fib saddr . iif oif missing counter drop'),
  },
  { ...core, what: 'marks', text: rule('meta mark set meta mark & 0x87ffffff | 0x07000000') },
  {
    ...core,
    what: 'TCP options and the route’s MTU (maxseg, rt mtu)',
    text: rule('tcp flags syn tcp option maxseg size set rt mtu'),
  },
  {
    what: 'hashes (jhash)',
    module: 'nft_hash',
    option: 'CONFIG_NFT_HASH',
    text: rule('jhash ip saddr . ip daddr mod 2 seed 0x0 vmap { 0 : goto peer }'),
  },
  {
    what: 'snat',
    module: 'nft_nat',
    option: 'CONFIG_NFT_NAT',
    text: rule('snat ip to ip saddr'),
  },
  { what: 'masquerade', module: 'nft_masq', option: 'CONFIG_NFT_MASQ', text: rule('masquerade') },
];

/** In the order in which they are tried. */
export function nftNeeds({
  hooked,
  egress,
}: {
  readonly hooked: boolean;
  readonly egress: boolean;
}): readonly NftNeed[] {
  return [TABLE, ...(hooked ? [BASE_CHAIN] : []), ...OF_NODES, ...(egress ? OF_EGRESS : [])];
}

/** For people: what is missing and where it is. */
function missingText(missing: readonly NftNeed[]): string {
  const texts = missing.map(({ what, module, option }) => `${what} (module ${module}, ${option})`);
  const modules = [...new Set(missing.map(({ module }) => module))];
  return `this kernel lacks ${texts.join(', ')}; if it has them as modules: modprobe ${modules.join(' ')}`;
}
