import type { NftError } from 'nftables-napi';
import type { OwnedGroup } from './classify.ts';
import type { Links } from './group-reconciler.ts';

/**
 * Resets links to group 0 if they still have the index, name and group that nodewall set. Returns
 * those that were reset; throws the first error, except for links that were deleted meanwhile.
 */
export async function releaseGroups(links: Links, remembered: readonly OwnedGroup[]): Promise<OwnedGroup[]> {
  if (remembered.length === 0) return [];
  const found = new Map((await links.list()).map((link) => [link.index, link]));
  const ours = remembered.filter(({ index, name, group }) => {
    const link = found.get(index);
    return group !== 0 && link?.name === name && link.group === group;
  });
  const answers = await links.setGroups(ours.map(({ index }) => ({ index, group: 0 })));
  const refused = answers.find((error): error is NftError => error !== null && error.code !== 'ENODEV');
  if (refused !== undefined) throw refused;
  return ours.filter((_, i) => answers[i] === null);
}

/** The entries of a saved value that have the right form. */
export function toOwnedGroups(value: unknown): readonly OwnedGroup[] {
  if (!Array.isArray(value)) return [];
  return value.filter(
    (entry): entry is OwnedGroup =>
      Number.isInteger(entry?.index) && typeof entry.name === 'string' && Number.isInteger(entry.group),
  );
}
