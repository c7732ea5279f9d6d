import { userInfo } from 'node:os';

/** The name of the user who runs the command. */
export function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // The user id has no entry in the container's passwd file.
    return `user ${process.getuid?.() ?? ''}`.trim();
  }
}
