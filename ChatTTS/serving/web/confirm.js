/** Asks before something is deleted. */

const $ = (id) => document.getElementById(id);
const DOUBLE_MS = 400; // the second click of two that opened the dialog is no answer

/** @returns {Promise<boolean>} whether the user agrees. */
export function confirmed(question) {
  const dialog = $("confirm-dialog");
  $("confirm-text").textContent = question;
  dialog.returnValue = "no";
  $("confirm-yes").disabled = true;
  setTimeout(() => ($("confirm-yes").disabled = false), DOUBLE_MS);
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
