/** A row of the tables of docs/security.md. */
export interface SecurityClaim {
  /** 1-based, of the page. */
  readonly line: number;
  readonly says: string;
  /** Paths from the page of the files that hold it. */
  readonly heldBy: readonly string[];
}

const ROW = /^\| (can|can't) \|(.*)\|([^|]*)\|$/;

export function securityClaims(page: string): SecurityClaim[] {
  return page.split('\n').flatMap((text, index) => {
    const [, verb, what = '', heldBy = ''] = ROW.exec(text) ?? [];
    if (verb === undefined) return [];
    const links = [...heldBy.matchAll(/\]\(([^)#]+)\)/g)].map(([, path]) => path ?? '');
    const isLimit = verb === 'can' && heldBy.trim() === 'no test: a limit';
    return [{ line: index + 1, says: `${verb} ${what.trim()}`, heldBy: isLimit ? ['limit'] : links }];
  });
}

/** Whether mocha runs what the file says: tests, cases, or suites that a test describes. */
export function isTest(path: string, text: string): boolean {
  if (/\.(test|long)\.ts$/.test(path)) return /\b(it|describe|[a-z]+Suite)\(/.test(text);
  if (/\/test\/(cases|invalid)\/[a-z-]+\.md$/.test(path)) return true;
  return /^export function describe[A-Z]/m.test(text);
}
