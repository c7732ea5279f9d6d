/**
 * What either iptables, and ipset, hold in a namespace, and how all of ours there is taken away.
 */
import { createNamespace, type Namespace } from '../netns/namespace.ts';
import { FAMILIES, type Family } from './passed-by.ts';

/** The two iptables: over nf_tables, and with the kernel's own old tables. */
export type Iptables = 'nft' | 'legacy';

/** The command of a variant and family: `ip6tables-nft`, `iptables-legacy-save`, … */
export function commandOf(variant: Iptables, family: Family, end: '' | '-save' | '-restore' = ''): string {
  return `${family === 4 ? 'iptables' : 'ip6tables'}-${variant}${end}`;
}

/**
 * What doesn't work here; undefined when nothing. Newer systems have no iptables-legacy, newer
 * kernels no old tables.
 */
export async function missingIptables(variant: Iptables): Promise<string | undefined> {
  const namespace = await createNamespace('trial');
  try {
    const commands = FAMILIES.map((family) => [commandOf(variant, family), '-t', 'nat', '-S']);
    for (const argv of [...commands, ['ipset', 'list', '-n']]) {
      const { status } = await namespace.run(argv, { anyStatus: true });
      if (status !== 0) return `${argv[0]} doesn't work here`;
    }
    return undefined;
  } finally {
    await namespace.close();
  }
}

export interface Listing {
  /**
   * Chains by name, each as iptables-save prints it, without counters; jumps to them with their
   * place in the built-in chain.
   */
  readonly rules: string;
  /** And sets, which are nobody's own: each iptables sees the same. */
  readonly text: string;
  /** Whether the rules of both families say a word, or a member of a set is one. */
  says(word: RegExp): boolean;
}

/** All that is named as ours is. Text '': nothing. */
export async function listIptables(node: Namespace, variant: Iptables): Promise<Listing> {
  const [v4 = '', v6 = ''] = await Promise.all(
    FAMILIES.map(async (family) =>
      ownRules(await saved(node, commandOf(variant, family, '-save'))).join('\n'),
    ),
  );
  const sets = await listSets(node);
  const members = sets.flatMap(([, ...entries]) => entries).join('\n');
  const rules = [v4 && `IPv4\n${v4}`, v6 && `IPv6\n${v6}`].filter(Boolean);
  return {
    rules: rules.join('\n'),
    text: [...rules, ...sets.map((lines) => lines.join('\n'))].join('\n'),
    says: (word) => (word.test(v4) && word.test(v6)) || word.test(members),
  };
}

/**
 * A set that goes between its rule and its name makes iptables-save end with an error: then it is
 * read again.
 */
async function saved(node: Namespace, command: string): Promise<string> {
  for (let attempt = 1; ; attempt++) {
    const { status, stdout, stderr } = await node.run([command], { anyStatus: true });
    if (status === 0) return stdout;
    if (attempt === 10 || !stderr.includes("in kernel doesn't exist"))
      throw new Error(`${command}: ${stderr}`);
  }
}

/** Each set of ours: how it was made, without its sizes, then its members. */
async function listSets(node: Namespace): Promise<string[][]> {
  const { stdout } = await node.run(['ipset', 'save']);
  const sets = new Map<string, string[]>();
  for (const line of stdout.split('\n').sort()) {
    const [, what, name = '', rest = ''] = /^(create|add) (\S+) (.*)$/.exec(line) ?? [];
    if (!name.startsWith('nodewall-')) continue;
    const lines = sets.get(name) ?? [''];
    sets.set(name, lines);
    if (what === 'add') lines.push(`  ${rest}`);
    else lines[0] = `${name} ${rest.replaceAll(/ (hashsize|maxelem|bucketsize|initval) \S+/g, '')}`;
  }
  return [...sets.values()].sort(([a = ''], [b = '']) => (a < b ? -1 : 1));
}

function ownRules(saved: string): string[] {
  const chains = new Map<string, string[]>();
  const jumps: string[] = [];
  const places = new Map<string, number>();
  let table = '';
  for (const line of saved.split('\n')) {
    if (line.startsWith('*')) table = line.slice(1);
    const [, chain = '', rule] = /^(?::|-A )(\S+)(?: (.*))?$/.exec(line) ?? [];
    const key = `${table} ${chain}`;
    if (line.startsWith(':NODEWALL-')) chains.set(key, [key]);
    if (!line.startsWith('-A ') || rule === undefined) continue;
    const place = (places.get(key) ?? 0) + 1;
    places.set(key, place);
    if (chain.startsWith('NODEWALL-')) chains.get(key)?.push(`  ${rule}`);
    else if (/ ?-[jg] NODEWALL-/.test(rule)) jumps.push(`${key}, rule ${place}: ${rule}`);
  }
  const blocks = [...chains.values()].map((lines) => lines.join('\n'));
  return [...jumps.sort(), ...blocks.sort()];
}

/** Takes all of ours away at once, as a reboot does. Others' rules and sets stay. */
export async function loseIptables(node: Namespace, variant: Iptables): Promise<void> {
  for (const family of FAMILIES) {
    const { stdout } = await node.run([commandOf(variant, family, '-save')]);
    const stdin = removal(stdout);
    if (stdin !== '') await node.run([commandOf(variant, family, '-restore'), '--noflush'], { stdin });
  }
  const names = (await node.run(['ipset', 'list', '-n'])).stdout.split('\n');
  const destroys = names.filter((name) => name.startsWith('nodewall-')).map((name) => `destroy ${name}\n`);
  // An agent that is running may have its rules back already, and the sets in use.
  await node.run(['ipset', 'restore'], { stdin: destroys.join(''), anyStatus: true });
}

function removal(saved: string): string {
  const tables = saved.split(/^(?=\*)/m).filter((text) => text.startsWith('*'));
  return tables
    .map((text) => {
      const lines = text.split('\n');
      const chains = lines.flatMap((line) => /^:(NODEWALL-\S+)/.exec(line)?.[1] ?? []);
      const jumps = lines.filter((line) => /^-A (?!NODEWALL-)\S+ .*-[jg] NODEWALL-/.test(line));
      if (chains.length === 0) return '';
      const removed = [
        ...jumps.map((line) => line.replace('-A', '-D')),
        ...chains.map((chain) => `-F ${chain}`),
        ...chains.map((chain) => `-X ${chain}`),
      ];
      return `${[lines[0], ...removed, 'COMMIT'].join('\n')}\n`;
    })
    .join('');
}

/**
 * Chains and sets with names of ours, as an older program or a run that was killed may leave them.
 */
export async function addStaleChains(node: Namespace, variant: Iptables): Promise<void> {
  const sets = ['nodewall-stale', 'nodewall-tmp-1'].map(
    (name) => `create ${name} hash:net family inet6 -exist\nadd ${name} 2001:db8::1 -exist\n`,
  );
  await node.run(['ipset', 'restore'], { stdin: sets.join('') });
  for (const family of FAMILIES) {
    const chains = ['NODEWALL-STALE', 'NODEWALL-OLDER'].map((chain) => `:${chain} - [0:0]`);
    const rules = ['-A NODEWALL-STALE -j NODEWALL-OLDER', '-A NODEWALL-OLDER -p tcp --dport 7 -j DROP'];
    const ofSet = family === 6 ? ['-A NODEWALL-STALE -m set --match-set nodewall-stale src -j DROP'] : [];
    const stdin = ['*filter', ...chains, ...rules, ...ofSet, 'COMMIT', ''].join('\n');
    await node.run([commandOf(variant, family, '-restore'), '--noflush'], { stdin });
  }
}
