/** Where the reader is: `#/PAGE?PARAMETERS` of the address, so that links to it can be sent. */
export const PAGES = ['in-force', 'drops', 'explain', 'preview', 'audit', 'rollouts', 'lint'] as const;
export type PageName = (typeof PAGES)[number];

export interface PageRoute {
  readonly page: PageName;
  readonly parameters: URLSearchParams;
}

/** The first page for whatever names none. */
export function toPageRoute(hash: string): PageRoute {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const page = PAGES.find((name) => name === path) ?? PAGES[0];
  return { page, parameters: new URLSearchParams(query) };
}

/** Parameters that are empty are left out. */
export function toHash(page: PageName, parameters: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== ''));
  return query.size === 0 ? `#/${page}` : `#/${page}?${query}`;
}
