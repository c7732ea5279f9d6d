/**
 * Measures which ways of replacing rules let packets of a closed port through; the table in
 * test/kernel/README.md comes from here. As root: `node perf/measure/swaps.ts [part of a name]`,
 * about 7 s each.
 */

import { leakedDuring } from '../../test/kernel/flood-tool.ts';
import { createTopology } from '../../test/netns/topology.ts';

const TIME = 6_000;
const TABLE = 'inet nodewall';
const HOOK = '{ type filter hook input priority 0; udp dport 9 drop; }';

/** A swap is some nft transactions; `i` counts the swaps. */
type Swap = (i: number) => readonly string[];

const refill = (rule: string) => `flush chain ${TABLE} in\nadd rule ${TABLE} in ${rule}\n`;
const addMap = (i: number) =>
  `add map ${TABLE} m${i} { type inet_service : verdict; elements = { 9 : drop, 77 : accept }; }\n`;
const addSet = (i: number, flags: string, port: string) =>
  `add set ${TABLE} s${i} { type inet_service; ${flags} elements = { ${port}, 77 }; }\n`;
const addChain = (i: number) => `add chain ${TABLE} c${i}\nadd rule ${TABLE} c${i} udp dport 9 drop\n`;
const remove = (what: string, i: number) => (i > 0 ? `delete ${what}${i - 1}\n` : '');
const removeChain = (i: number) =>
  (i > 0 ? `flush chain ${TABLE} c${i - 1}\n` : '') + remove(`chain ${TABLE} c`, i);

const SWAPS: Readonly<Record<string, Swap>> = {
  'plain rule': () => [refill('udp dport 9 drop')],
  'delete and add the table': () => [`delete table ${TABLE}\ntable ${TABLE} { chain in ${HOOK}; }\n`],
  'anonymous hash set': (i) => [refill(`udp dport { 9, ${1000 + (i % 50)} } drop`)],
  'anonymous interval set': (i) => [refill(`udp dport { 5-20, ${1000 + (i % 50)}-2000 } drop`)],
  'anonymous verdict map': (i) => [refill(`udp dport vmap { 9 : drop, ${1000 + (i % 50)} : accept }`)],
  'anonymous verdict map by protocol': () => [refill('meta l4proto vmap { tcp : accept, udp : drop }')],
  'anonymous verdict map with jumps': (i) => [
    addChain(i) + refill(`udp dport vmap { 9 : jump c${i}, 77 : accept }`) + removeChain(i),
  ],
  'named map filled before, old one deleted with the swap': (i) => [
    addMap(i),
    refill(`udp dport vmap @m${i}`) + remove(`map ${TABLE} m`, i),
  ],
  'named map filled before, old one deleted later': (i) => [
    addMap(i),
    refill(`udp dport vmap @m${i}`),
    remove(`map ${TABLE} m`, i),
  ],
  'named map filled with the swap, old one deleted later': (i) => [
    addMap(i) + refill(`udp dport vmap @m${i}`),
    remove(`map ${TABLE} m`, i),
  ],
  'element of a map that stays, deleted and added': (i) => [
    i === 0
      ? addMap(0) + refill('udp dport vmap @m0')
      : `delete element ${TABLE} m0 { 9 : drop }\nadd element ${TABLE} m0 { 9 : drop }\n`,
  ],
  'named hash set filled before, old one deleted with the swap': (i) => [
    addSet(i, '', '9'),
    refill(`udp dport @s${i} drop`) + remove(`set ${TABLE} s`, i),
  ],
  'named interval set filled before, old one deleted with the swap': (i) => [
    addSet(i, 'flags interval;', '5-20'),
    refill(`udp dport @s${i} drop`) + remove(`set ${TABLE} s`, i),
  ],
  'jump to a new chain, old chain deleted with the swap': (i) => [
    addChain(i) + refill(`jump c${i}`) + removeChain(i),
  ],
};

async function measure(swap: Swap): Promise<string> {
  const topology = await createTopology();
  const nft = (stdin: string) => topology.node.run(['nft', '-f', '-'], { stdin });
  try {
    await nft(`table ${TABLE} { chain in ${HOOK}; }\n`);
    let swaps = 0;
    const { sent, leaked } = await leakedDuring(
      topology,
      { protocol: 'udp', port: 9, family: 4 },
      async () => {
        for (const end = performance.now() + TIME; performance.now() < end; swaps++) {
          for (const transaction of swap(swaps)) if (transaction !== '') await nft(transaction);
        }
      },
    );
    return `${leaked} of ${sent} in ${swaps} swaps`;
  } finally {
    await topology.close();
  }
}

const [, , wanted = ''] = process.argv;
for (const [name, swap] of Object.entries(SWAPS)) {
  if (name.includes(wanted)) process.stdout.write(`${name}: ${await measure(swap)}\n`);
}
