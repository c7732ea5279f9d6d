/** nftables layouts without an index. */
import type { GeneratedRule, RuleSet } from '../generate/ruleset.ts';
import { addressLists } from './address-lists.ts';

/**
 * Connection tracking and nothing else, on the hooks that nodewall has: what every stateful
 * firewall costs at least.
 */
export const STATEFUL = `table inet stateful {
  chain input { type filter hook input priority 0; policy accept; ct state established,related accept; }
  chain output { type filter hook output priority 0; policy accept; ct state established,related accept; }
}
`;

/** One rule for each policy rule, in one chain: the port first, then `@set`. IPv4 alone. */
export function listText(set: RuleSet): string {
  const rules = ruleTexts(set, ({ port, source, verdict }) => `${port} ${source} counter ${verdict}`);
  return table(set, 'plain', [
    chain('input', ['type filter hook input priority 0; policy accept;', STATE, ...rules]),
    chain('output', ['type filter hook output priority 0; policy accept;', STATE]),
  ]);
}

/** Endpoints beside the Node, each with a chain: as many as a Node has pods. */
const OTHERS = 100;

/**
 * A chain for each local address, found by one verdict map, and in it that address's rules one
 * after the other, the set first: the manner of firewalls with chains for each pod. All rules are
 * the Node's; the other endpoints have a chain without any. IPv4 alone.
 */
export function endpointText(set: RuleSet): string {
  const rules = ruleTexts(set, ({ port, source, verdict }) => `${source} ${port} counter ${verdict}`);
  const others = Array.from({ length: OTHERS }, (_, i) => ({
    address: `10.244.0.${i + 1}`,
    name: `endpoint-${i}`,
  }));
  const all = [{ address: set.connection.destination, name: 'endpoint-node' }, ...others];
  const map = all.map(({ address, name }) => `${address} : goto ${name}`).join(', ');
  return table(set, 'endpoints', [
    ...all.map(({ name }) => chain(name, name === 'endpoint-node' ? rules : [])),
    chain('input', ['type filter hook input priority 0; policy accept;', STATE, `ip daddr vmap { ${map} }`]),
    chain('output', ['type filter hook output priority 0; policy accept;', STATE]),
  ]);
}

const STATE = 'ct state established,related accept';
const VERDICTS: Readonly<Record<GeneratedRule['action'], string>> = {
  Allow: 'accept',
  Drop: 'drop',
  Reject: 'reject with tcp reset',
};

interface RuleParts {
  readonly port: string;
  readonly source: string;
  readonly verdict: string;
}

function ruleTexts(set: RuleSet, text: (parts: RuleParts) => string): string[] {
  const { lists, names } = addressLists(set, 4);
  const alone = new Map(
    lists.map(({ name, members }) => [name, members.length === 1 ? members[0] : undefined]),
  );
  return set.rules.flatMap(({ protocol, ports, action }, i) => {
    const name = names[i] ?? null;
    if (protocol !== 'TCP' || ports === null)
      throw new Error('this layout is for rules with TCP ports alone');
    if (name === null) return [];
    const port = ports.from === ports.to ? `${ports.from}` : `${ports.from}-${ports.to}`;
    const source = `ip saddr ${alone.get(name) ?? `@${name}`}`;
    return [text({ port: `tcp dport ${port}`, source, verdict: VERDICTS[action] })];
  });
}

/** Lists of one member stand in the rule itself. */
function table(set: RuleSet, name: string, chains: readonly string[]): string {
  const sets = addressLists(set, 4)
    .lists.filter(({ members }) => members.length > 1)
    .map((list) => {
      const flags = list.members.some((member) => member.includes('/') && !member.endsWith('/32'))
        ? 'flags interval; '
        : '';
      const members = list.members.map((member) => member.replace(/\/32$/, ''));
      return `  set ${list.name} { type ipv4_addr; ${flags}elements = { ${members.join(', ')} }; }\n`;
    });
  return `table inet ${name} {\n${[...sets, ...chains].join('')}}\n`;
}

function chain(name: string, lines: readonly string[]): string {
  return `  chain ${name} {\n${lines.map((line) => `    ${line}\n`).join('')}  }\n`;
}
