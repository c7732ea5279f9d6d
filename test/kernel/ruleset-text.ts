/**
 * The text of `nft -s list table`, comparable: blocks (chains, sets, maps) in order of their names.
 */
export function toStableText(listing: string): string {
  const lines = withPorts(listing)
    .split('\n')
    .filter((line) => line.trim() !== '');
  const [first = '', ...rest] = lines;
  const blocks: string[][] = [];
  const loose: string[] = [];
  for (const line of rest.slice(0, -1)) {
    const indent = line.length - line.trimStart().length;
    const block = blocks.at(-1);
    if (indent === 1 && line.endsWith('{')) blocks.push([line]);
    else if (block !== undefined) block.push(line);
    else loose.push(line);
  }
  return [first, ...loose, ...blocks.map((block) => block.join('\n')).sort(), '}'].join('\n');
}

/**
 * With the ports of `ct original proto-dst` that nft 1.0.6 cannot print where a text has made their
 * set: netlink leaves out what it stumbles over.
 */
export function withPorts(listing: string): string {
  return listing.replaceAll(/0x([0-9a-f]+) \[invalid type\]/g, (_, digits) =>
    String(Number.parseInt(digits, 16)),
  );
}
