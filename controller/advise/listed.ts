/** More names are counted. */
const MOST_NAMED = 3;

/** `a, b, c and 4 more`. */
export function listed(names: readonly string[], most = MOST_NAMED): string {
  const rest = names.length - most;
  return `${names.slice(0, most).join(', ')}${rest > 0 ? ` and ${rest} more` : ''}`;
}

/** `1 kind`, `1,204 kinds`. */
export function counted(count: number, what: string): string {
  return `${count.toLocaleString('en')} ${what}${count === 1 ? '' : 's'}`;
}
