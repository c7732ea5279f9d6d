/** The item with the highest weight for a key, so that few keys move when an item comes or goes. */
export function rendezvous<T>(key: string, items: readonly T[], nameOf: (item: T) => string): T | undefined {
  let best: T | undefined;
  let most = -1;
  for (const item of items) {
    const own = weight(`${key}\n${nameOf(item)}`);
    if (own <= most) continue;
    best = item;
    most = own;
  }
  return best;
}

/** All items, the one with the highest weight first. */
export function byRendezvous<T>(key: string, items: readonly T[], nameOf: (item: T) => string): T[] {
  const weighed = items.map((item) => ({ item, own: weight(`${key}\n${nameOf(item)}`) }));
  return weighed.sort((a, b) => b.own - a.own).map(({ item }) => item);
}

/** FNV-1a, then the last step of MurmurHash3, without which like texts have like weights. */
export function weight(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
