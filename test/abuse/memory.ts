import { readFileSync } from 'node:fs';

/** Resident memory of a process and its children (bytes); 0 of those that have ended. */
export function rssOfTree(pid: number): number {
  return [pid, ...childrenOf(pid)].reduce((sum, one) => sum + rssOf(one), 0);
}

function childrenOf(pid: number): number[] {
  return text(`/proc/${pid}/task/${pid}/children`).split(' ').filter(Boolean).map(Number);
}

function rssOf(pid: number): number {
  return 4096 * Number(text(`/proc/${pid}/statm`).split(' ')[1] ?? 0);
}

function text(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
