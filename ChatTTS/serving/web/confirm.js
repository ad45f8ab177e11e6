/** Asks before something is deleted. */

const $ = (id) => document.getElementById(id);

/** @returns {Promise<boolean>} whether the user agrees. */
export function confirmed(question) {
  const dialog = $("confirm-dialog");
  $("confirm-text").textContent = question;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
